// B of figure 2: asks C for each request of 32 bytes, and answers with both. Usage: b PORT PORT-OF-C [ADDRESS ADDRESS-OF-C]
#include <stdlib.h>
#include <string.h>
#include "weir/vnf.h"

enum { LEN = 32 };

struct state {
  int a;
  char *a_req;
};

static int c_port;
static const char *c_address;

static void handle_c_reply(int c, void *request, char *c_reply, size_t length, int error) {
  struct state *state = (struct state *)request;
  (void)length, (void)error;
  char *a_reply = getPktBuf(state->a);
  for (int i = 0; i < LEN; i++) {
    a_reply[i] = state->a_req[i] ^ c_reply[i];
  }
  sendData(state->a, a_reply, LEN);
  unsetPktDNE(state->a_req);
  freeReqObj(state->a);
  closeConn(c);
}

// C is down: the end of its connection is A's answer.
static void handle_c_error(int c, void *request, char *packet, size_t length, int error) {
  struct state *state = (struct state *)request;
  (void)packet, (void)length, (void)error;
  unsetPktDNE(state->a_req);
  closeConn(state->a);
  closeConn(c);
}

static void handle_a_req(int a, void *request, char *a_req, size_t length, int error) {
  (void)error;
  if (length != LEN) {
    closeConn(a);
    return;
  }
  struct state *state = (struct state *)(request = allocReqObj(a, 1));
  state->a = a;
  state->a_req = setPktDNE(a_req);
  int c = createClient(c_address, c_port, TCP);
  registerCallback(c, READ, handle_c_reply);
  registerCallback(c, ERROR, handle_c_error);
  linkReqObj(c, request);
  char *c_req = getPktBuf(c);
  memcpy(c_req, a_req, LEN);
  sendData(c, c_req, LEN);
}

int main(int argc, char *argv[]) {
  c_port = argc > 2 ? atoi(argv[2]) : 0;
  c_address = argc > 4 ? argv[4] : "127.0.0.1";
  int sizes[] = {sizeof(struct state)};
  initReqPool(sizes, 1);
  int server = createServer("", argc > 3 ? argv[3] : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, TCP);
  registerCallback(server, READ, handle_a_req);
  return startEventLoop();
}
