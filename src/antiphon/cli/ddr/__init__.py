"""`antiphon ddr`: design documents."""
