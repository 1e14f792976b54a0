"""The embedded model: llama.cpp in this process, called in the chat-completions dialect."""
