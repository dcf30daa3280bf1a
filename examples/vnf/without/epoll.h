// What each of the servers here needs beside its own code: sockets, and a loop on each core.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in local_address(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void watch(int epoll, int socket, uint32_t events, void *data) {
  struct epoll_event event = {.events = events, .data.ptr = data};
  epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

static int listen_on(int port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  struct sockaddr_in address = local_address(port);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0) {
    perror("listen");
    exit(1);
  }
  return listener;
}

static inline int connect_to(int port) {
  int server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  struct sockaddr_in address = local_address(port);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(server, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
    close(server);
    return -1;
  }
  return server;
}

static int accept_from(int listener) {
  int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK), on = 1;
  if (client >= 0) {
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return client;
}

// Runs a loop on each CPU that the process may use, as many as WEIR_VNF_CORES says, each pinned to its own.
static void run_loops(void *(*loop)(void *)) {
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  const char *cores = getenv("WEIR_VNF_CORES");
  int left = cores != NULL ? atoi(cores) : CPU_COUNT(&usable);
  pthread_t thread;
  for (int cpu = 0; cpu < CPU_SETSIZE && left > 0; cpu++) {
    if (CPU_ISSET(cpu, &usable)) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
      pthread_create(&thread, &attributes, loop, NULL);
      left--;
    }
  }
  pthread_join(thread, NULL);
}
