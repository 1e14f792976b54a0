/* Gemini's generateContent, as the mock speaks it. */
#include <stdio.h>
#include <string.h>

#include "mock.h"

#define DELTA_HEAD "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\""
#define DELTA_TAIL "\"}],\"role\":\"model\"},\"index\":0}],\"modelVersion\":\"mock\"}\n\n"
#define USAGE                                                                                   \
    "\"usageMetadata\":{\"promptTokenCount\":12,\"candidatesTokenCount\":%d,"                   \
    "\"totalTokenCount\":%d},\"modelVersion\":\"mock\"}"

static void opening(struct conn *c) {
    (void)c; /* the first token is the first thing it says */
}

static void content(struct conn *c) {
    static char chunk[1024] = DELTA_HEAD;
    size_t n = sizeof DELTA_HEAD - 1;
    n += put_token(c, chunk + n);
    memcpy(chunk + n, DELTA_TAIL, sizeof DELTA_TAIL - 1);
    put_chunk(c, chunk, n + sizeof DELTA_TAIL - 1);
}

static void ending(struct conn *c) {
    char chunk[400];
    int n = snprintf(chunk, sizeof chunk,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},"
        "\"finishReason\":\"STOP\",\"index\":0}]," USAGE "\n\n",
        c->tokens, c->tokens + 12);
    put_chunk(c, chunk, n);
}

static size_t json(struct conn *c, char *body) {
    size_t n = sprintf(body, "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"");
    n += put_text(c, body + n);
    n += sprintf(body + n,
        "\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]," USAGE,
        c->tokens, c->tokens + 12);
    return n;
}

const struct dialect GEMINI = {"\"maxOutputTokens\"", opening, content, ending, json};
