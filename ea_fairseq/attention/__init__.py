"""The one attention that all mechanisms are built on, and what it reads."""
