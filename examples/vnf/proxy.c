// A reverse proxy for HTTP/1.1: a request a connection, passed on to a server with a header that says so.
// Usage: proxy PORT PORT-OF-SERVER [ADDRESS ADDRESS-OF-SERVER]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "weir/vnf.h"

enum { HEAD = 16384, ENOUGH = 1 << 20 };

struct state {
  int client, server; // The server is 0 until the head of the request is there.
  int answered;
  size_t length;
  char head[HEAD];
};

static int server_port;
static const char *server_address;

static void send_bytes(int connection, const char *bytes, size_t length) {
  while (length > 0) {
    size_t part = length < VNF_BUFFER_SIZE ? length : VNF_BUFFER_SIZE;
    char *packet = getPktBuf(connection);
    if (packet == NULL) {
      return; // The connection is gone.
    }
    memcpy(packet, bytes, part);
    sendData(connection, packet, part);
    bytes += part;
    length -= part;
  }
}

static void refuse(int client, const char *status) {
  char text[256];
  int length = snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
  send_bytes(client, text, (size_t)length);
  closeConn(client);
}

// Passes data on, and holds up where it comes from if the other side is slower.
static void pass(int from, int to, char *packet, size_t length) {
  sendData(to, packet, length);
  if (vnfQueued(to) > ENOUGH) {
    vnfPause(from, 1);
  }
}

static void server_read(int server, void *request, char *packet, size_t length, int error) {
  (void)error;
  struct state *state = (struct state *)request;
  state->answered = 1;
  pass(server, state->client, packet, length);
}

static void server_sent(int server, void *request, char *packet, size_t length, int error) {
  (void)server, (void)packet, (void)length, (void)error;
  vnfPause(((struct state *)request)->client, 0);
}

static void client_sent(int client, void *request, char *packet, size_t length, int error) {
  (void)client, (void)packet, (void)length, (void)error;
  struct state *state = (struct state *)request;
  if (state != NULL && state->server != 0) {
    vnfPause(state->server, 0);
  }
}

static void server_end(int server, void *request, char *packet, size_t length, int error) {
  (void)packet, (void)length;
  struct state *state = (struct state *)request;
  (void)error;
  int client = state->client, answered = state->answered;
  closeConn(server);
  if (answered) {
    closeConn(client);
  } else {
    refuse(client, "502 Bad Gateway");
  }
}

// The client sends no more: the server may still answer. Or it is gone: so is its request.
static void client_end(int client, void *request, char *packet, size_t length, int error) {
  (void)client, (void)packet, (void)length;
  struct state *state = (struct state *)request;
  if (state != NULL && (error != VNF_PEER_CLOSED || state->server == 0)) {
    closeConn(state->server);
    closeConn(state->client);
  }
}

// The head without the client's wish for the connection, and with ours.
static void send_head(struct state *state) {
  static const char ours[] = "Via: 1.1 weir\r\nConnection: close\r\n\r\n";
  char *line = state->head;
  for (char *end; (end = strstr(line, "\r\n")) != NULL && end != line; line = end + 2) {
    if (strncasecmp(line, "connection:", 11) != 0) {
      send_bytes(state->server, line, (size_t)(end + 2 - line));
    }
  }
  send_bytes(state->server, ours, sizeof ours - 1);
  send_bytes(state->server, line + 2, (size_t)(state->head + state->length - line - 2));
}

static void client_read(int client, void *request, char *packet, size_t length, int error) {
  (void)error;
  struct state *state = (struct state *)request;
  if (state != NULL && state->server != 0) {
    pass(client, state->server, packet, length);
    return;
  }
  if (state == NULL) {
    state = (struct state *)(request = allocReqObj(client, 1));
    state->client = client;
  }
  if (state->length + length >= HEAD || memchr(packet, 0, length) != NULL) {
    refuse(client, state->length + length >= HEAD ? "431 Request Header Fields Too Large" : "400 Bad Request");
    return;
  }
  memcpy(state->head + state->length, packet, length);
  state->length += length;
  if (strstr(state->head, "\r\n\r\n") != NULL) {
    state->server = createClient(server_address, server_port, TCP);
    linkReqObj(state->server, request);
    registerCallback(state->server, READ, server_read);
    registerCallback(state->server, SENT, server_sent);
    registerCallback(state->server, ERROR, server_end);
    send_head(state);
  }
}

int main(int argc, char *argv[]) {
  server_port = argc > 2 ? atoi(argv[2]) : 0;
  server_address = argc > 4 ? argv[4] : "127.0.0.1";
  int sizes[] = {sizeof(struct state)};
  initReqPool(sizes, 1);
  int server = createServer("", argc > 3 ? argv[3] : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, TCP);
  registerCallback(server, READ, client_read);
  registerCallback(server, SENT, client_sent);
  registerCallback(server, ERROR, client_end);
  return startEventLoop();
}
