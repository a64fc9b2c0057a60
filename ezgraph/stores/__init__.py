"""Where sessions are kept: a contract, memory and SQLite.  Bytes live here and nowhere else.

Write `from ezgraph.stores.sqlite import SQLiteStore`.  This package imports none: nobody loads what they do not use.
"""
