/* Chat completions, as the mock speaks them. */
#include <stdio.h>
#include <string.h>

#include "mock.h"

#define CHUNK_HEAD                                                                              \
    "data: {\"id\":\"chatcmpl-5d1c0e9a7b3f48626ad0\",\"object\":\"chat.completion.chunk\","     \
    "\"created\":1760000000,\"model\":\"mock\",\"choices\":["
#define DELTA_HEAD CHUNK_HEAD "{\"index\":0,\"delta\":{\"content\":\""
#define DELTA_TAIL "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"

static const char ROLE_CHUNK[] = CHUNK_HEAD
    "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"logprobs\":null,\"finish_reason\":null}]}\n\n";
static const char STOP_CHUNK[] =
    CHUNK_HEAD "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n";
static const char DONE[] = "data: [DONE]\n\n";

static void opening(struct conn *c) {
    put_chunk(c, ROLE_CHUNK, sizeof ROLE_CHUNK - 1);
}

static void content(struct conn *c) {
    static char chunk[1024] = DELTA_HEAD;
    size_t n = sizeof DELTA_HEAD - 1;
    n += put_token(c, chunk + n);
    memcpy(chunk + n, DELTA_TAIL, sizeof DELTA_TAIL - 1);
    put_chunk(c, chunk, n + sizeof DELTA_TAIL - 1);
}

static void ending(struct conn *c) {
    put_chunk(c, STOP_CHUNK, sizeof STOP_CHUNK - 1);
    if (c->usage) {
        char chunk[400];
        int n = snprintf(chunk, sizeof chunk,
            CHUNK_HEAD "],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
            c->tokens, c->tokens + 12);
        put_chunk(c, chunk, n);
    }
    put_chunk(c, DONE, sizeof DONE - 1);
}

static size_t json(struct conn *c, char *body) {
    size_t n = sprintf(body,
        "{\"id\":\"chatcmpl-5d1c0e9a7b3f48626ad0\",\"object\":\"chat.completion\","
        "\"created\":1760000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"message\":"
        "{\"role\":\"assistant\",\"content\":\"");
    n += put_text(c, body + n);
    n += sprintf(body + n,
        "\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":"
        "{\"prompt_tokens\":12,\"completion_tokens\":%d,\"total_tokens\":%d}}",
        c->tokens, c->tokens + 12);
    return n;
}

const struct dialect CHAT = {"\"max_tokens\"", opening, content, ending, json};
