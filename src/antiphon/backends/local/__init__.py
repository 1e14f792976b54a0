"""The embedded model: llama.cpp inside our process, called in the chat-completions dialect."""
