"""What people read of an audit: the page, the pictures, the way back from a number to its probes.

Here: choosing, wording and drawing what the tables hold. Not here: computing it (`stats/`), printing to a terminal
(`cli/`).
"""
