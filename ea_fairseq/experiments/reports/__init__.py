"""Tables, figures and pages of results."""
