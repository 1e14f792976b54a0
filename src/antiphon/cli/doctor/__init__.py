"""`antiphon doctor`: checks of the installation."""
