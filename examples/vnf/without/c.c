// C of figure 2 without the library. Usage: c PORT
#include "epoll.h"

enum { LEN = 32, EVENTS = 1024 };

static int port;

static void *loop(void *unused) {
  int epoll = epoll_create1(0), listener = listen_on(port);
  struct epoll_event events[EVENTS];
  (void)unused;
  watch(epoll, listener, EPOLLIN, NULL);
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      // The number of a socket and 1: NULL is the listener.
      int client = (int)(size_t)events[i].data.ptr - 1;
      if (client < 0) {
        while ((client = accept_from(listener)) >= 0) {
          watch(epoll, client, EPOLLIN, (void *)(size_t)(client + 1));
        }
        continue;
      }
      char packet[2048];
      ssize_t length = read(client, packet, sizeof packet);
      if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        continue;
      }
      for (ssize_t j = 0; j < length; j++) {
        packet[j]++;
      }
      if (length != LEN || write(client, packet, LEN) != LEN) {
        close(client);
      }
    }
  }
  return NULL;
}

int main(int argc, char *argv[]) {
  port = argc > 1 ? atoi(argv[1]) : 0;
  run_loops(loop);
  return 0;
}
