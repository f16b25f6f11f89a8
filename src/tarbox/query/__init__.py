"""Queries: data, and the surfaces on which people read and write them.

`algebra` the nine kinds of node, shapes and slots; `manchester` and `render` text to query and back; `sparql` the
same one way; `names` and `tokens` what both surfaces share; `templates` and `betae` named shapes; `rewrites` other
queries with the same answers; `english` (with `phrases` and `words`) and `drawing` for people.
"""
