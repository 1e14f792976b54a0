/* The Responses API, as the mock speaks it: for gateways that keep state but do not translate. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mock.h"

#define ITEM_HEAD                                                                              \
    "{\"id\":\"msg_%032" PRIx64 "\",\"type\":\"message\",\"role\":\"assistant\","                     \
    "\"status\":\"%s\",\"content\":["
#define PART "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":\"%s\"}"
#define PLACE "\"item_id\":\"msg_%032" PRIx64 "\",\"output_index\":0,\"content_index\":0,"

static char text[TEXT_MAX + 64];

static size_t put_item(struct conn *c, char *to) {
    return sprintf(to, ITEM_HEAD PART "]}", c->number, "completed", text);
}

/* The response; with its item and usage once it is complete. */
static size_t put_response(struct conn *c, int complete, char *to) {
    size_t n = sprintf(to,
        "{\"id\":\"resp_%032" PRIx64 "\",\"object\":\"response\",\"created_at\":1760000000,"
        "\"status\":\"%s\",\"model\":\"mock\",\"error\":null,\"incomplete_details\":null,"
        "\"instructions\":null,\"metadata\":{},\"parallel_tool_calls\":true,\"temperature\":1.0,"
        "\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0,\"output\":[",
        c->number, complete ? "completed" : "in_progress");
    if (!complete) return n + sprintf(to + n, "],\"usage\":null}");
    n += put_item(c, to + n);
    return n + sprintf(to + n,
        "],\"usage\":{\"input_tokens\":12,\"input_tokens_details\":{\"cached_tokens\":0},"
        "\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%d}}",
        c->tokens, c->tokens + 12);
}

/* Sends an event: its type and number, then the members that the format gives. */
static void event(struct conn *c, const char *type, const char *format, ...) {
    static char chunk[TEXT_MAX + 2048];
    size_t n = sprintf(chunk, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,", type, type,
                       c->events++);
    va_list members;
    va_start(members, format);
    n += vsprintf(chunk + n, format, members);
    va_end(members);
    n += sprintf(chunk + n, "}\n\n");
    put_chunk(c, chunk, n);
}

static void opening(struct conn *c) {
    char response[1024];
    put_response(c, 0, response);
    c->events = 0;
    event(c, "response.created", "\"response\":%s", response);
    event(c, "response.in_progress", "\"response\":%s", response);
    event(c, "response.output_item.added", "\"output_index\":0,\"item\":" ITEM_HEAD "]}", c->number,
          "in_progress");
    event(c, "response.content_part.added", PLACE "\"part\":" PART, c->number, "");
}

static void content(struct conn *c) {
    char token[64];
    token[put_token(c, token)] = 0;
    event(c, "response.output_text.delta", PLACE "\"logprobs\":[],\"delta\":\"%s\"", c->number, token);
}

static void ending(struct conn *c) {
    static char body[TEXT_MAX + 2048];
    text[put_text(c, text)] = 0;
    event(c, "response.output_text.done", PLACE "\"logprobs\":[],\"text\":\"%s\"", c->number, text);
    event(c, "response.content_part.done", PLACE "\"part\":" PART, c->number, text);
    put_item(c, body);
    event(c, "response.output_item.done", "\"output_index\":0,\"item\":%s", body);
    put_response(c, 1, body);
    event(c, "response.completed", "\"response\":%s", body);
}

static size_t json(struct conn *c, char *body) {
    text[put_text(c, text)] = 0;
    return put_response(c, 1, body);
}

const struct dialect RESPONSES = {"\"max_output_tokens\"", opening, content, ending, json};
