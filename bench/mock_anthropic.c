/* Anthropic's Messages API, as the mock speaks it. */
#include <stdio.h>
#include <string.h>

#include "mock.h"

#define MESSAGE                                                                                 \
    "{\"id\":\"msg_5d1c0e9a7b3f48626ad0\",\"type\":\"message\",\"role\":\"assistant\","         \
    "\"model\":\"mock\","
#define DELTA_HEAD                                                                              \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"          \
    "\"delta\":{\"type\":\"text_delta\",\"text\":\""
#define DELTA_TAIL "\"}}\n\n"

static const char OPENING_EVENTS[] =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":" MESSAGE
    "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
    "\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\n\n"
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
    "event: ping\ndata: {\"type\":\"ping\"}\n\n";

static void opening(struct conn *c) {
    put_chunk(c, OPENING_EVENTS, sizeof OPENING_EVENTS - 1);
}

static void content(struct conn *c) {
    static char chunk[1024] = DELTA_HEAD;
    size_t n = sizeof DELTA_HEAD - 1;
    n += put_token(c, chunk + n);
    memcpy(chunk + n, DELTA_TAIL, sizeof DELTA_TAIL - 1);
    put_chunk(c, chunk, n + sizeof DELTA_TAIL - 1);
}

static void ending(struct conn *c) {
    char chunk[600];
    int n = snprintf(chunk, sizeof chunk,
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
        "\"stop_sequence\":null},\"usage\":{\"output_tokens\":%d}}\n\n"
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        c->tokens);
    put_chunk(c, chunk, n);
}

static size_t json(struct conn *c, char *body) {
    size_t n = sprintf(body, MESSAGE "\"content\":[{\"type\":\"text\",\"text\":\"");
    n += put_text(c, body + n);
    n += sprintf(body + n,
        "\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,"
        "\"usage\":{\"input_tokens\":12,\"output_tokens\":%d}}",
        c->tokens);
    return n;
}

const struct dialect ANTHROPIC = {"\"max_tokens\"", opening, content, ending, json};
