/* mock.h: a connection of the mock, and the dialects in which it answers. */
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 24000   /* bytes of a whole text; it ends there */
#define OUT_FULL 63488   /* a write is not made longer than this by another chunk */
#define OUT_SPARE 131072 /* more than a dialect's longest piece: four times the whole text */
#define OUT_SIZE (OUT_FULL + OUT_SPARE)

enum phase { OPENING, CONTENT, SENT };

struct conn {
    int fd, busy, stream, usage, tokens, next_token, events, dead, queued, epollout, close_after;
    enum phase phase;
    const struct dialect *dialect;
    uint64_t number; /* of the answer under way; makes its ids */
    char *in, *out;
    size_t in_len, in_cap, out_len, out_off;
    uint64_t due;
    struct conn *next; /* in the queue, or among the dead */
};

struct dialect {
    const char *limit; /* the parameter that gives the number of tokens */
    void (*opening)(struct conn *c);
    void (*content)(struct conn *c); /* the next token */
    void (*ending)(struct conn *c);
    size_t (*json)(struct conn *c, char *body); /* the whole answer; its length */
};

extern const struct dialect CHAT, RESPONSES, ANTHROPIC, GEMINI;

void put(struct conn *c, const char *bytes, size_t n);
void put_chunk(struct conn *c, const char *bytes, size_t n); /* of a chunked body */
size_t put_token(struct conn *c, char *to);                  /* the next token's text, in JSON */
size_t put_text(struct conn *c, char *to);                   /* the whole text */
