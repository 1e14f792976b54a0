# nginx as a plain reverse proxy, one worker: what passing the bytes on costs, without translation.
#
# api: chat
# health: /v1/models
# install: apt-get install nginx (and stop the service it starts)
PATH=$PATH:/usr/sbin
if [ "$1" = version ]; then
    command -v nginx >/dev/null && nginx -v 2>&1
    exit
fi
cat >"$WORK/nginx.conf" <<END
daemon off;
worker_processes 1;
pid $WORK/nginx.pid;
error_log stderr;
events { worker_connections 8192; }
http {
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 600;
    client_body_temp_path $WORK/body;
    proxy_temp_path $WORK/proxy;
    fastcgi_temp_path $WORK/fastcgi;
    uwsgi_temp_path $WORK/uwsgi;
    scgi_temp_path $WORK/scgi;
    upstream mock {
        server 127.0.0.1:$UP_PORT;
        keepalive 1000;
        keepalive_requests 1000000;
    }
    server {
        listen 127.0.0.1:$PORT backlog=4096;
        location / {
            proxy_pass http://mock;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600;
        }
    }
}
END
exec nginx -e stderr -c "$WORK/nginx.conf"
