"""Grammars in the form that other engines take: Lark and regular expressions become GBNF."""
