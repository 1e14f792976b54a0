"""What `antiphon doctor` checks: one file per area. A check finds something out and says what to do."""
