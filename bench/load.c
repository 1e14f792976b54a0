/*
 * load: a closed-loop HTTP/1.1 load generator that understands server-sent events.
 *
 * One thread, epoll, keep-alive, loopback only.  Each connection sends the same POST again as
 * soon as its answer is complete; with "-" as the body-file, the same GET.  Every answer is
 * checked (status, last event, number of text deltas); counted are answers, events and deltas;
 * timed are the first delta, the whole answer and, when the mock stamps its tokens, the way of
 * each delta from the mock to here.
 *
 * Build: cc -O2 -o load load.c
 * Run:   ./load port path body-file [-c connections] [-d seconds] [-w warm-up seconds]
 *               [-r seconds over which the connections start] [-m delta marker]
 *               [-e end marker] [-k deltas expected] [-h "Further-Header: value"]
 *
 * Prints "begin" to stderr when the warm-up is over and, at the end, one flat JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum state { HEAD, SIZED, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, TO_CLOSE };

struct conn {
    int fd, sse, status, closing, ended;
    enum state state;
    size_t left; /* bytes still to come of the body or of its chunk */
    char *in;    /* bytes not yet parsed as HTTP */
    size_t in_len, in_cap;
    char *text; /* the event, or the JSON body, that is being put together */
    size_t text_len, text_cap;
    uint64_t sent_at, first_at;
    long deltas, events;
};

struct samples { uint32_t *v; size_t n, cap; };

static int port = 0, epoll_fd, measuring;
static double seconds = 5, warm_up = 1, ramp = 0;
static char *request;
static size_t request_len;
static const char *delta_marker = "\"response.output_text.delta\"", *end_marker = "response.completed";
static const char *header = "";
static long expected_deltas = -1;
static uint64_t answers, events, deltas, errors, reconnects;
static struct samples first_times, total_times, transit_times;
static char first_error[400];

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

/* ---- results ------------------------------------------------------------------------------ */

static void sample(struct samples *s, uint64_t ns) {
    if (!measuring) return;
    if (s->n == s->cap) s->v = realloc(s->v, (s->cap = s->cap * 2 + 65536) * sizeof *s->v);
    s->v[s->n++] = ns / 100 > UINT32_MAX ? UINT32_MAX : ns / 100; /* in units of 0.1 us */
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s) {
    if (!s->n) return;
    qsort(s->v, s->n, sizeof *s->v, by_value);
    printf(",\"%s_p50_ms\":%.4f,\"%s_p99_ms\":%.4f,\"%s_max_ms\":%.4f", name, s->v[s->n / 2] / 1e4,
           name, s->v[s->n * 99 / 100] / 1e4, name, s->v[s->n - 1] / 1e4);
}

static void print_results(double span) {
    printf("{\"seconds\":%.3f,\"answers\":%" PRIu64 ",\"events\":%" PRIu64 ",\"deltas\":%" PRIu64
           ",\"errors\":%" PRIu64 ",\"reconnects\":%" PRIu64
           ",\"answers_per_s\":%.2f,\"events_per_s\":%.1f,\"deltas_per_s\":%.1f",
           span, answers, events, deltas, errors, reconnects, answers / span, events / span,
           deltas / span);
    print_samples("total", &total_times);
    print_samples("first", &first_times);
    print_samples("transit", &transit_times);
    for (char *p = first_error; *p; p++)
        if (*p == '"' || *p == '\\' || !isprint((unsigned char)*p)) *p = '\'';
    printf(",\"first_error\":\"%s\"}\n", first_error);
}

static void fail(struct conn *c, const char *why) {
    if (!first_error[0])
        snprintf(first_error, sizeof first_error, "%s (status %d, %ld events, %ld deltas): %.200s",
                 why, c->status, c->events, c->deltas, c->text_len ? c->text : "");
    if (measuring) errors++;
}

/* ---- requests ----------------------------------------------------------------------------- */

static void dial(struct conn *c) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(c->fd, (void *)&a, sizeof a)) { perror("connect"); exit(1); }
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
    c->in_len = 0;
}

static void redial(struct conn *c) {
    close(c->fd);
    dial(c);
    if (measuring) reconnects++;
}

static int send_request(struct conn *c) { /* small: fits into the socket's buffer */
    return send(c->fd, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len;
}

static void start(struct conn *c) {
    c->state = HEAD;
    c->text_len = 0;
    c->deltas = c->events = c->ended = c->closing = c->status = 0;
    c->first_at = 0;
    c->sent_at = now_ns();
    if (send_request(c)) return;
    redial(c);
    if (!send_request(c)) { fprintf(stderr, "send failed\n"); exit(1); }
}

/* ---- answers ------------------------------------------------------------------------------ */

static void read_delta(struct conn *c, const char *marker, const char *end) {
    uint64_t now = 0;
    c->deltas++;
    if (measuring) deltas++;
    if (!c->first_at) c->first_at = now = now_ns();
    const char *at = memchr(marker, '@', end - marker);
    if (!at || !isdigit((unsigned char)at[1])) return;
    uint64_t stamp = strtoull(at + 1, NULL, 10);
    if (!now) now = now_ns();
    if (now > stamp) sample(&transit_times, now - stamp);
}

static void read_event(struct conn *c, const char *p, size_t n) {
    c->events++;
    if (measuring) events++;
    const char *marker = memmem(p, n, delta_marker, strlen(delta_marker));
    if (marker) read_delta(c, marker, p + n);
    else if (memmem(p, n, end_marker, strlen(end_marker))) c->ended = 1;
}

/* Finds the blank line that ends an event; sets the length of the line ends. */
static char *event_end(char *p, char *end, size_t *gap) {
    while ((p = memchr(p, '\n', end - p))) {
        *gap = 2;
        if (p + 1 < end && p[1] == '\n') return p;
        *gap = 3;
        if (p + 2 < end && p[1] == '\r' && p[2] == '\n') return p;
        p++;
    }
    return NULL;
}

static void body(struct conn *c, const char *p, size_t n) {
    if (c->text_cap < c->text_len + n + 1)
        c->text = realloc(c->text, c->text_cap = (c->text_len + n) * 2 + 4096);
    memcpy(c->text + c->text_len, p, n);
    c->text_len += n;
    c->text[c->text_len] = 0;
    if (!c->sse) return;
    char *from = c->text, *end = c->text + c->text_len, *stop;
    size_t gap;
    while ((stop = event_end(from, end, &gap))) {
        read_event(c, from, stop - from);
        from = stop + gap;
    }
    c->text_len = end - from;
    memmove(c->text, from, c->text_len);
}

static const char *fault(struct conn *c) {
    if (c->status != 200) return "bad status";
    if (!c->sse) {
        int found = c->text_len && memmem(c->text, c->text_len, end_marker, strlen(end_marker));
        return found ? NULL : "end marker missing";
    }
    if (!c->ended) return "no last event";
    if (expected_deltas >= 0 && c->deltas != expected_deltas) return "wrong number of deltas";
    return NULL;
}

static void complete(struct conn *c) {
    uint64_t now = now_ns();
    const char *why = fault(c);
    if (why) fail(c, why);
    if (measuring) answers++;
    sample(&total_times, now - c->sent_at);
    if (c->first_at) sample(&first_times, c->first_at - c->sent_at);
    if (c->closing) redial(c);
    start(c);
}

/* ---- HTTP --------------------------------------------------------------------------------- */

/* Each reader takes what it can from p and returns how much, or -1 when it needs more bytes. */

static ssize_t read_head(struct conn *c, char *p, size_t have) {
    char *stop = memmem(p, have, "\r\n\r\n", 4);
    if (!stop) return -1;
    *stop = 0;
    c->status = have > 9 ? atoi(p + 9) : 0;
    c->sse = strcasestr(p, "text/event-stream") != NULL;
    c->closing = strcasestr(p, "\r\nconnection: close") != NULL;
    char *length = strcasestr(p, "\r\ncontent-length:");
    if (strcasestr(p, "\r\ntransfer-encoding: chunked")) c->state = CHUNK_SIZE;
    else if (length) { c->left = strtoul(length + 17, NULL, 10); c->state = SIZED; }
    else c->state = TO_CLOSE;
    return stop + 4 - p;
}

static ssize_t read_data(struct conn *c, char *p, size_t have) {
    size_t n = have < c->left ? have : c->left;
    body(c, p, n);
    c->left -= n;
    if (!c->left && c->state == CHUNK_DATA) c->state = CHUNK_END;
    return n;
}

static ssize_t read_line(struct conn *c, char *p, size_t have, int *done) {
    char *line_end = memchr(p, '\n', have);
    if (!line_end) return -1;
    if (c->state == CHUNK_SIZE) {
        c->left = strtoul(p, NULL, 16);
        c->state = c->left ? CHUNK_DATA : TRAILER;
    } else if (c->state == CHUNK_END) {
        c->state = CHUNK_SIZE;
    } else {
        *done = line_end - p <= 1; /* the blank line after the trailers */
    }
    return line_end + 1 - p;
}

static ssize_t read_some(struct conn *c, char *p, size_t have, int *done) {
    ssize_t n = have;
    switch (c->state) {
    case HEAD:
        n = read_head(c, p, have);
        *done = c->state == SIZED && !c->left;
        return n;
    case SIZED:
    case CHUNK_DATA:
        n = read_data(c, p, have);
        *done = c->state == SIZED && !c->left;
        return n;
    case TO_CLOSE:
        body(c, p, have);
        return n;
    default:
        return read_line(c, p, have, done);
    }
}

static void parse(struct conn *c) {
    size_t at = 0;
    while (at < c->in_len) {
        int done = 0;
        ssize_t n = read_some(c, c->in + at, c->in_len - at, &done);
        if (n < 0) break;
        at += n;
        if (!done) continue;
        complete(c); /* nothing is pipelined, so nothing can follow an answer */
        c->in_len = at = 0;
    }
    c->in_len -= at;
    memmove(c->in, c->in + at, c->in_len);
}

static void readable(struct conn *c) {
    if (c->in_cap - c->in_len < 32768) c->in = realloc(c->in, (c->in_cap = c->in_cap * 2 + 131072) + 1);
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, MSG_DONTWAIT);
    if (n > 0) {
        c->in_len += n;
        parse(c);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (c->state == TO_CLOSE) { c->closing = 1; complete(c); return; }
    if (c->state != HEAD) fail(c, "cut off");
    redial(c);
    start(c);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void run(struct conn *conns, int count) {
    uint64_t t0 = now_ns(), measure_at = t0 + warm_up * 1e9, stop_at = measure_at + seconds * 1e9;
    uint64_t now = t0, began = t0;
    struct epoll_event found[512];
    for (int started = 0;;) {
        while (started < count && now >= t0 + ramp * 1e9 * started / count) {
            dial(&conns[started]);
            start(&conns[started++]);
        }
        int n = epoll_wait(epoll_fd, found, 512, started < count ? 1 : 20);
        for (int i = 0; i < n; i++) readable(found[i].data.ptr);
        now = now_ns();
        if (!measuring && now >= measure_at) {
            measuring = 1;
            began = now;
            fputs("begin\n", stderr);
        }
        if (now >= stop_at) break;
    }
    print_results((now - began) / 1e9);
}

static void build_request(const char *path, const char *file) {
    static char content[1 << 20];
    size_t n = 0;
    int get = !strcmp(file, "-");
    if (!get) {
        FILE *f = fopen(file, "r");
        if (!f) { perror(file); exit(1); }
        n = fread(content, 1, sizeof content, f);
        fclose(f);
    }
    request = malloc(n + 1024);
    int head = snprintf(request, 1024,
        "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        "Authorization: Bearer sk-bench\r\n%s%sContent-Length: %zu\r\n\r\n",
        get ? "GET" : "POST", path, port, header, *header ? "\r\n" : "", n);
    if (head >= 1024) { fprintf(stderr, "path or header too long\n"); exit(2); }
    memcpy(request + head, content, n);
    request_len = head + n;
}

int main(int argc, char **argv) {
    int count = 1, option;
    while ((option = getopt(argc, argv, "c:d:w:r:m:e:k:h:")) > 0) switch (option) {
        case 'c': count = atoi(optarg); break;
        case 'd': seconds = atof(optarg); break;
        case 'w': warm_up = atof(optarg); break;
        case 'r': ramp = atof(optarg); break;
        case 'm': delta_marker = optarg; break;
        case 'e': end_marker = optarg; break;
        case 'k': expected_deltas = atol(optarg); break;
        case 'h': header = optarg; break;
        default: return 2;
    }
    if (argc - optind != 3) {
        fprintf(stderr, "usage: %s port path body-file [-c n] ...\n", argv[0]);
        return 2;
    }
    alarm(warm_up + seconds + 10); /* never hang in connect() */
    port = atoi(argv[optind]);
    build_request(argv[optind + 1], argv[optind + 2]);
    epoll_fd = epoll_create1(0);
    run(calloc(count, sizeof(struct conn)), count);
    return 0;
}
