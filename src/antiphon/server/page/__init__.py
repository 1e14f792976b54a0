"""The page: its files, its headers and its session."""
