"""The embedded model: llama.cpp inside our process, spoken to in the chat-completions dialect."""
