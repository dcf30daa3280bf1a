// C of figure 2: answers a request of 32 bytes with each of them plus one. Usage: c PORT [ADDRESS]
#include <stdlib.h>
#include "weir/vnf.h"

enum { LEN = 32 };

static void handle(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)error;
  for (size_t i = 0; i < length; i++) {
    packet[i]++;
  }
  if (length != LEN || sendData(connection, packet, LEN) != 0) {
    closeConn(connection);
  }
}

int main(int argc, char *argv[]) {
  int server = createServer("", argc > 2 ? argv[2] : "127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, TCP);
  registerCallback(server, READ, handle);
  return startEventLoop();
}
