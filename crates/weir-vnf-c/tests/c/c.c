// VNF C of figure 2: answers 32 bytes with each of them plus one.
#include "support.h"

static void handle(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)error;
  for (size_t i = 0; i < length; i++) {
    packet[i]++;
  }
  sendData(connection, packet, length);
}

int main(void) {
  registerCallback(server(TCP), READ, handle);
  return run();
}
