"""The checks that `antiphon serve` and `antiphon doctor` share."""
