// Usage: relay PORT tcp|udp. Asks PORT for each message, and answers with the reply, or with why there is none. A message that begins
// with "keep" is kept for ever; several requests of a connection may be under way.
#include "support.h"

struct relayed {
  int a;
  char *message;
};

static int port, protocol;

static void say(int connection, const char *text) {
  char *packet = getPktBuf(connection);
  memcpy(packet, text, strlen(text));
  sendData(connection, packet, strlen(text));
}

static void replied(int c, void *request, char *packet, size_t length, int error) {
  struct relayed *relayed = (struct relayed *)request;
  (void)error;
  sendData(relayed->a, packet, length);
  if (memcmp(relayed->message, "keep", 4) != 0) {
    unsetPktDNE(relayed->message);
  }
  freeReqObj(relayed->a);
  closeConn(c);
}

static void failed(int c, void *request, char *packet, size_t length, int error) {
  (void)packet, (void)length;
  struct relayed *relayed = (struct relayed *)request;
  say(relayed->a, vnfErrorText(error));
  unsetPktDNE(relayed->message);
  freeReqObj(relayed->a);
  closeConn(c);
}

static void asked(int a, void *request, char *packet, size_t length, int error) {
  (void)error;
  struct relayed *relayed = (struct relayed *)(request = allocReqObj(a, 1));
  relayed->a = a;
  relayed->message = setPktDNE(packet);
  int c = createClient("127.0.0.1", port, protocol);
  registerCallback(c, READ, replied);
  registerCallback(c, ERROR, failed);
  linkReqObj(c, request);
  char *copy = getPktBuf(c);
  memcpy(copy, packet, length);
  sendData(c, copy, length);
}

static void asked_badly(int a, void *request, char *packet, size_t length, int error) {
  (void)request, (void)packet, (void)length;
  if (error != VNF_PEER_CLOSED) {
    say(a, vnfErrorText(error));
  }
}

static void report(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)length;
  printf("%d %.6s %s\n", connection, packet, vnfErrorText(error));
  fflush(stdout);
}

int main(int argc, char *argv[]) {
  protocol = argc == 3 && strcmp(argv[2], "udp") == 0 ? UDP : TCP;
  port = atoi(argv[1]);
  int id = server(protocol);
  registerCallback(id, READ, asked);
  registerCallback(id, ERROR, asked_badly);
  registerCallback(0, ERROR, report);
  int sizes[1] = {sizeof(struct relayed)};
  initReqPool(sizes, 1);
  return run();
}
