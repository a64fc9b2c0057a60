"""Where sessions are kept: a contract, memory and SQLite.  Bytes live here and nowhere else."""
