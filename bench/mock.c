/*
 * mock: the cheapest upstream there can be, for load tests: chat completions, and what else a
 * gateway may ask for.
 *
 * One thread, epoll, HTTP/1.1 with keep-alive, loopback only.  It answers
 *
 *   POST .../chat/completions   stream or not, as the request says (mock_chat.c)
 *   POST .../responses          the same text as a response (mock_responses.c)
 *   POST .../messages           the same as a message of Anthropic's (mock_anthropic.c)
 *   POST ...:generateContent    the same as Gemini says it (mock_gemini.c); also :streamGenerateContent
 *   GET  .../models             one model, "mock"
 *   GET  /health                200
 *   GET  /stats                 counters as JSON; "active" is the number of answers under way,
 *                               "bytes" the length of all requests
 *   GET  /control?key=value&... sets options, for all connections from now on:
 *
 *     tokens    content chunks per answer, unless the request gives max_tokens,
 *               max_completion_tokens or max_output_tokens
 *     delay_us  pause before each chunk of a stream and before a JSON answer
 *     burst     chunks per write of a stream; 0: as many as the buffer holds
 *     stamp     1: the text of a chunk is " @<monotonic ns>@", so that the client can time it
 *     yield     1: give up the core after each write, so that a client on the same core reads
 *               at once and the times it takes do not include the mock's next writes
 *
 * Build: cc -O2 -o mock mock*.c        Run: ./mock 9100 [key=value ...]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mock.h"

#define EVENTS 512

struct request {
    char *path, *body; /* both end with a NUL */
    char *after;       /* the first byte behind the request */
    char *copy;        /* of a chunked body; to be freed */
};

static long opt_tokens = 100, opt_delay_us, opt_burst = 1, opt_stamp, opt_yield;
static uint64_t n_requests, n_bytes, n_chunks, n_aborted, n_active;
static int epoll_fd;
static struct conn *queue_head, *queue_tail, *graveyard;

static const char *const TOKENS[] = {
    " a", " river", " runs", " past", " seven", " old", " mills", ",", " and", " each",
    " one", " answers", " the", " next", ":", " \\\"listen\\\"", "\\n\\n", " d\xc3\xa9j\xc3\xa0", " vu",
    " \xe2\x99\xaa", " so", " it", " goes", ".", " Then", " rain", " fell", " on", " every",
    " roof", " at", " once"};
#define N_TOKENS (sizeof TOKENS / sizeof *TOKENS)

static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char MODELS[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\","
    "\"created\":1760000000,\"owned_by\":\"mock\"}]}";
static const char NOT_HERE[] =
    "{\"error\":{\"message\":\"not here\",\"type\":\"invalid_request_error\"}}";

static void parse(struct conn *c);

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static void set_option(const char *key, size_t length, long value) {
    static const struct { const char *key; long *value; } map[] = {
        {"tokens", &opt_tokens}, {"delay_us", &opt_delay_us}, {"burst", &opt_burst},
        {"stamp", &opt_stamp}, {"yield", &opt_yield}};
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (strlen(map[i].key) == length && !memcmp(map[i].key, key, length)) *map[i].value = value;
}

/* ---- connections -------------------------------------------------------------------------- */

/* Memory is given back at the end of a round only, so that no caller holds a freed connection. */
static void bury(struct conn *c) {
    c->next = graveyard;
    graveyard = c;
}

static void clear_graveyard(void) {
    while (graveyard) {
        struct conn *c = graveyard;
        graveyard = c->next;
        free(c->in);
        free(c->out);
        free(c);
    }
}

static void drop(struct conn *c) {
    if (c->dead) return;
    if (c->busy) { n_aborted++; n_active--; }
    c->dead = 1;
    close(c->fd);
    if (!c->queued) bury(c);
}

static void watch(struct conn *c, int writable) {
    if (c->epollout == writable) return;
    c->epollout = writable;
    struct epoll_event e = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* The queue is in order of time because all pauses are equally long. */
static void enqueue(struct conn *c) {
    c->due = opt_delay_us ? now_ns() + opt_delay_us * 1000u : 0;
    c->next = NULL;
    c->queued = 1;
    if (queue_tail) queue_tail->next = c; else queue_head = c;
    queue_tail = c;
}

/* Returns 0 when everything is out, 1 when the socket is full, -1 when the peer is gone. */
static int flush_out(struct conn *c) {
    while (c->out_off < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        if (n > 0) c->out_off += n;
        else if (n < 0 && errno == EINTR) continue;
        else if (n < 0 && errno == EAGAIN) { watch(c, 1); return 1; }
        else return -1;
    }
    c->out_off = c->out_len = 0;
    watch(c, 0);
    if (opt_yield) sched_yield();
    return 0;
}

void put(struct conn *c, const char *bytes, size_t n) {
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
}

void put_chunk(struct conn *c, const char *bytes, size_t n) {
    char head[24];
    put(c, head, snprintf(head, sizeof head, "%zx\r\n", n));
    put(c, bytes, n);
    put(c, "\r\n", 2);
}

/* ---- answers ------------------------------------------------------------------------------ */

size_t put_token(struct conn *c, char *to) {
    c->next_token++;
    if (opt_stamp) return sprintf(to, " @%" PRIu64 "@", now_ns());
    const char *token = TOKENS[(c->next_token - 1) % N_TOKENS];
    size_t n = strlen(token);
    memcpy(to, token, n);
    return n;
}

size_t put_text(struct conn *c, char *to) {
    size_t n = 0;
    for (c->next_token = 0; c->next_token < c->tokens && n < TEXT_MAX;) n += put_token(c, to + n);
    return n;
}

/* Appends what comes next in the stream. */
static void put_next(struct conn *c) {
    if (c->phase == OPENING) {
        c->dialect->opening(c);
        c->phase = CONTENT;
    } else if (c->next_token < c->tokens) {
        c->dialect->content(c);
        n_chunks++;
    } else {
        c->dialect->ending(c);
        put(c, "0\r\n\r\n", 5);
        c->phase = SENT;
    }
}

static void put_json(struct conn *c) {
    static char body[TEXT_MAX + OUT_SPARE];
    size_t n = c->dialect->json(c, body);
    char head[160];
    put(c, head, snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", n));
    put(c, body, n);
    c->phase = SENT;
}

static void finish(struct conn *c) {
    c->busy = 0;
    n_active--;
    if (c->close_after) drop(c);
    else if (c->in_len) parse(c);
}

static void go_on(struct conn *c) {
    if (c->phase == SENT) finish(c);
    else enqueue(c);
}

/* One step of an answer: its pause is over. */
static void step(struct conn *c) {
    if (c->stream) {
        long left = opt_burst > 0 ? opt_burst : OUT_FULL;
        while (c->phase != SENT && left-- > 0 && c->out_len < OUT_FULL) put_next(c);
    } else {
        put_json(c);
    }
    int full = flush_out(c);
    if (full < 0) drop(c);
    else if (!full) go_on(c); /* else EPOLLOUT goes on */
}

/* ---- requests ----------------------------------------------------------------------------- */

static const char *value_of(const char *json, const char *key) {
    const char *p = strstr(json, key);
    if (!p) return "";
    p += strlen(key);
    return p + strspn(p, " :");
}

static long find_int(const char *json, const char *key) {
    const char *p = value_of(json, key);
    return isdigit((unsigned char)*p) ? atol(p) : -1;
}

static int find_true(const char *json, const char *key) {
    return !strncmp(value_of(json, key), "true", 4);
}

static void start_answer(struct conn *c, const struct dialect *dialect, struct request *r) {
    const char *body = r->body;
    int streamed = strstr(r->path, ":stream") != NULL; /* Gemini says it in the path */
    long tokens = find_int(body, "\"max_completion_tokens\"");
    if (tokens < 0) tokens = find_int(body, dialect->limit);
    c->dialect = dialect;
    c->number = n_requests;
    c->tokens = tokens >= 0 ? tokens : opt_tokens;
    c->stream = find_true(body, "\"stream\"") || streamed;
    c->usage = find_true(body, "\"include_usage\"");
    c->next_token = 0;
    c->phase = OPENING;
    c->busy = 1;
    n_active++;
    if (c->stream) put(c, STREAM_HEAD, sizeof STREAM_HEAD - 1);
}

static void reply(struct conn *c, const char *status, const char *body) {
    char head[200];
    put(c, head, snprintf(head, sizeof head,
        "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        status, strlen(body)));
    put(c, body, strlen(body));
    if (flush_out(c) < 0 || c->close_after) drop(c);
}

static void reply_control(struct conn *c, char *path) {
    for (char *p = strchr(path, '?'); p && *p; p = strchr(p + 1, '&')) {
        char *equals = strchr(p, '=');
        if (equals) set_option(p + 1, equals - p - 1, atol(equals + 1));
    }
    char body[200];
    snprintf(body, sizeof body,
        "{\"tokens\":%ld,\"delay_us\":%ld,\"burst\":%ld,\"stamp\":%ld,\"yield\":%ld}\n",
        opt_tokens, opt_delay_us, opt_burst, opt_stamp, opt_yield);
    reply(c, "200 OK", body);
}

static void reply_stats(struct conn *c) {
    char body[200];
    snprintf(body, sizeof body,
        "{\"requests\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"chunks\":%" PRIu64 ",\"aborted\":%" PRIu64
        ",\"active\":%" PRIu64 "}\n",
        n_requests, n_bytes, n_chunks, n_aborted, n_active);
    reply(c, "200 OK", body);
}

static void dispatch(struct conn *c, struct request *r) {
    n_requests++;
    if (strstr(r->path, "/chat/completions")) start_answer(c, &CHAT, r);
    else if (strstr(r->path, "/responses")) start_answer(c, &RESPONSES, r);
    else if (strstr(r->path, "/messages")) start_answer(c, &ANTHROPIC, r);
    else if (strstr(r->path, "enerateContent")) start_answer(c, &GEMINI, r);
    else if (!strcmp(r->path, "/health")) reply(c, "200 OK", "{}");
    else if (strstr(r->path, "/models")) reply(c, "200 OK", MODELS);
    else if (!strncmp(r->path, "/control", 8)) reply_control(c, r->path);
    else if (!strncmp(r->path, "/stats", 6)) reply_stats(c);
    else reply(c, "404 Not Found", NOT_HERE);
}

/* Joins the chunks of a body; returns 0 when some are still to come. */
static int unchunk(char *p, char *end, struct request *r) {
    size_t n = 0;
    r->copy = malloc(end - p + 1);
    for (;;) {
        char *line_end = memmem(p, end - p, "\r\n", 2);
        if (!line_end) break;
        size_t size = strtoul(p, NULL, 16), have = end - (line_end + 2);
        if (have < 2 || have - 2 < size) break;
        memcpy(r->copy + n, line_end + 2, size);
        n += size;
        p = line_end + 2 + size + 2;
        if (size) continue;
        r->copy[n] = 0;
        r->body = r->copy;
        r->after = p;
        return 1;
    }
    free(r->copy);
    return 0;
}

/* Finds one whole request in c->in; returns 0 when some of it is still to come. */
static int frame(struct conn *c, struct request *r) {
    char *end = c->in + c->in_len, *head_end = memmem(c->in, c->in_len, "\r\n\r\n", 4);
    if (!head_end) return 0;
    size_t length = 0;
    int chunked = 0;
    *r = (struct request){.body = head_end + 4};
    c->close_after = 0;
    *end = 0;
    for (char *l = strstr(c->in, "\r\n"); l && l < head_end; l = strstr(l + 2, "\r\n")) {
        if (!strncasecmp(l + 2, "content-length:", 15)) length = strtoul(l + 17, NULL, 10);
        else if (!strncasecmp(l + 2, "transfer-encoding: chunked", 26)) chunked = 1;
        else if (!strncasecmp(l + 2, "connection: close", 17)) c->close_after = 1;
    }
    if (chunked) return unchunk(r->body, end, r);
    r->after = r->body + length;
    return (size_t)(end - r->body) >= length;
}

/* Takes whole requests off c->in and starts their answers, one after the other. */
static void parse(struct conn *c) {
    struct request r;
    while (!c->busy && !c->dead && c->in_len && frame(c, &r)) {
        char path[256] = "", kept = *r.after;
        *r.after = 0;
        sscanf(c->in, "%*s %255s", path);
        r.path = path;
        dispatch(c, &r);
        free(r.copy);
        *r.after = kept;
        n_bytes += r.after - c->in;
        c->in_len -= r.after - c->in;
        memmove(c->in, r.after, c->in_len);
        if (!c->busy || c->dead) continue;
        if (opt_delay_us) enqueue(c);
        else { step(c); return; } /* finish() parses what is left */
    }
}

static void readable(struct conn *c) {
    if (c->in_cap - c->in_len < 4096) c->in = realloc(c->in, (c->in_cap = c->in_cap * 2) + 1);
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
    if (n > 0) {
        c->in_len += n;
        parse(c);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop(c);
    }
}

static void writable(struct conn *c) {
    int full = flush_out(c);
    if (full < 0) drop(c);
    else if (!full && c->busy && !c->queued) go_on(c);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->in = malloc((c->in_cap = 8192) + 1);
        c->out = malloc(OUT_SIZE);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

/* Every stream that is due gets one step; those that come due meanwhile wait for the next round. */
static void run_queue(void) {
    struct conn *last = queue_tail;
    uint64_t now = queue_head ? now_ns() : 0;
    while (queue_head && queue_head->due <= now) {
        struct conn *c = queue_head;
        queue_head = c->next;
        if (!queue_head) queue_tail = NULL;
        c->queued = 0;
        if (c->dead) bury(c);
        else step(c);
        if (c == last) break;
    }
}

static int wait_events(struct epoll_event *events) {
    if (!queue_head) return epoll_wait(epoll_fd, events, EVENTS, -1);
    uint64_t now = now_ns(), left = queue_head->due > now ? queue_head->due - now : 0;
    struct timespec t = {.tv_sec = left / 1000000000u, .tv_nsec = left % 1000000000u};
    return epoll_pwait2(epoll_fd, events, EVENTS, &t, NULL);
}

static void serve(int listener) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int n = wait_events(events);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!c) { accept_all(listener); continue; }
            if (!c->dead && events[i].events & EPOLLOUT) writable(c);
            if (!c->dead && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
        }
        run_queue();
        clear_graveyard();
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s port [tokens=100 delay_us=0 burst=1 stamp=0 yield=0]\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals) set_option(argv[i], equals - argv[i], atol(equals + 1));
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&a, sizeof a) || listen(listener, 4096)) { perror("listen"); return 1; }
    epoll_fd = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    serve(listener);
}
