"""Files and uploads: content in the blob store, rows in the database."""
