"""Vector stores for clients: their files, how these are added, and how their passages are found."""
