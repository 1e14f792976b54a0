# vLLM's agentic-api: its Rust gateway alone, state in SQLite. It asks its upstream for responses, not for
# chat completions: it keeps state, and translates nothing.
# AGENTIC_VENV: the virtual environment it is installed in.
#
# api: responses
# health: /health
# state: SQLite
# install: python -m venv DIR && DIR/bin/pip install agentic-api, then set AGENTIC_VENV=DIR
server="${AGENTIC_VENV:?is not set}/bin/agentic-server"
[ -x "$server" ] || exit 1
if [ "$1" = version ]; then
    exec "$server" --version
fi
export AGENTIC_API_HOME="$WORK" RUST_LOG=error
exec "$server" --llm-api-base "http://127.0.0.1:$UP_PORT" --gateway-host 127.0.0.1 --gateway-port "$PORT" \
    --db-url "sqlite://$WORK/state.db?mode=rwc"
