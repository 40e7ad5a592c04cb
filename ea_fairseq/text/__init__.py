"""Raw text as models read it, and back: tokenization, subwords, and the preparation.json that names both."""
