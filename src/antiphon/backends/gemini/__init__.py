"""The Gemini dialect: ``models/{model}:generateContent`` and its stream, of Google's two APIs."""
