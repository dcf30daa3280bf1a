// A of figure 2: sends COUNT requests of 32 bytes to B over CONNECTIONS connections of each core, the next when an answer has come, and
// checks the answers. Usage: a PORT-OF-B CONNECTIONS COUNT [ADDRESS-OF-B]
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/vnf.h"

enum { LEN = 32 };

static int b_port, connections;
static const char *b_address;
static atomic_int to_send, to_come, wrong;

static void ask(int b) {
  int number = atomic_fetch_sub(&to_send, 1);
  if (number <= 0) {
    closeConn(b);
    return;
  }
  char *request = getPktBuf(b);
  memset(request, number, LEN);
  sendData(b, request, LEN);
}

static void handle_reply(int b, void *request, char *reply, size_t length, int error) {
  (void)request, (void)error;
  char sum = 0;
  for (size_t i = 0; i < length; i++) {
    sum |= reply[i] ^ reply[0];
  }
  // A number and its successor differ in their lowest bits.
  if (length != LEN || sum != 0 || (reply[0] & (reply[0] + 1)) != 0) {
    atomic_fetch_add(&wrong, 1);
    stopEventLoop();
  }
  if (atomic_fetch_sub(&to_come, 1) == 1) {
    stopEventLoop();
  }
  ask(b);
}

static void handle_error(int b, void *request, char *packet, size_t length, int error) {
  (void)b, (void)request, (void)packet, (void)length;
  fprintf(stderr, "B: %s\n", vnfErrorText(error));
  stopEventLoop();
}

static void begin(int none, void *request, char *packet, size_t length, int error) {
  (void)none, (void)request, (void)packet, (void)length, (void)error;
  for (int i = 0; i < connections; i++) {
    int b = createClient(b_address, b_port, TCP);
    registerCallback(b, READ, handle_reply);
    registerCallback(b, ERROR, handle_error);
    ask(b);
  }
}

int main(int argc, char *argv[]) {
  if (argc < 4) {
    return 2;
  }
  b_port = atoi(argv[1]);
  connections = atoi(argv[2]);
  int count = atoi(argv[3]);
  b_address = argc > 4 ? argv[4] : "127.0.0.1";
  atomic_store(&to_send, count);
  atomic_store(&to_come, count);
  registerCallback(0, START, begin);
  startEventLoop();
  int right = count - atomic_load(&to_come) - atomic_load(&wrong);
  printf("%d right answers\n", right);
  return right != count;
}
