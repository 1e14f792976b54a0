# LiteLLM's proxy, one worker, no database, no key, no retries.
# LITELLM_VENV: the virtual environment it is installed in.
#
# api: responses
# health: /health/liveliness
# install: python -m venv DIR && DIR/bin/pip install 'litellm[proxy]', then set LITELLM_VENV=DIR
[ -x "${LITELLM_VENV:?is not set}/bin/litellm" ] || exit 1
if [ "$1" = version ]; then
    exec "$LITELLM_VENV/bin/python" -c 'from importlib.metadata import version; print(version("litellm"))'
fi
cat >"$WORK/config.yaml" <<END
model_list:
  - model_name: mock
    litellm_params:
      model: hosted_vllm/mock
      api_base: http://127.0.0.1:$UP_PORT/v1
      api_key: sk-bench
      use_chat_completions_api: true
litellm_settings:
  drop_params: true
  telemetry: false
  num_retries: 0
END
# No key is checked: that would only cost it time, and it listens on loopback.
export LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true
export LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_LOG=ERROR LITELLM_TELEMETRY=False DO_NOT_TRACK=1
exec "$LITELLM_VENV/bin/litellm" --config "$WORK/config.yaml" --host 127.0.0.1 --port "$PORT" --num_workers 1
