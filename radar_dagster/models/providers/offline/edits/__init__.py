"""The text operations of the editor: each takes segments and a seeded random source, and tells what it did.

One module per kind of operation, all blind to criteria. Not here: which of them a criterion asks for (`editor.py`).
"""
