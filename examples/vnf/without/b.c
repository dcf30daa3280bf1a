// B of figure 2 without the library. Usage: b PORT PORT-OF-C
#include "epoll.h"

enum { LEN = 32, EVENTS = 1024 };

struct state;

struct peer {
  int socket;
  struct state *state; // Of a client: the request under way. Of C: whose it is.
  int is_c;
  int connected; // Of C: the request is sent.
};

struct state {
  struct peer *a, *c;
  char request[LEN];
};

static int port, c_port;

static _Thread_local struct peer *dead[2 * EVENTS]; // Freed behind the events, which may still name them.
static _Thread_local int dying;

static void end_peer(struct peer *peer) {
  if (peer->socket >= 0) {
    close(peer->socket);
    peer->socket = -1;
    dead[dying++] = peer;
  }
}

static void end_request(struct state *state) {
  if (state->a != NULL) {
    state->a->state = NULL;
  }
  end_peer(state->c);
  free(state);
}

static void end_client(struct peer *a) {
  if (a->state != NULL) {
    end_request(a->state);
  }
  end_peer(a);
}

static void read_request(int epoll, struct peer *a) {
  char packet[2048];
  ssize_t length = read(a->socket, packet, sizeof packet);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (length != LEN || a->state != NULL) {
    end_client(a);
    return;
  }
  struct state *state = malloc(sizeof *state);
  struct peer *c = calloc(1, sizeof *c);
  *state = (struct state){.a = a, .c = c};
  memcpy(state->request, packet, LEN);
  a->state = state;
  c->state = state;
  c->is_c = 1;
  c->socket = connect_to(c_port);
  if (c->socket < 0) {
    free(c);
    free(state);
    a->state = NULL;
    end_client(a);
    return;
  }
  watch(epoll, c->socket, EPOLLIN | EPOLLOUT | EPOLLET, c);
}

static void c_ready(struct peer *c, uint32_t events) {
  struct state *state = c->state;
  if (!c->connected && (events & EPOLLOUT) && !(events & (EPOLLERR | EPOLLHUP))) {
    if (write(c->socket, state->request, LEN) != LEN) {
      end_client(state->a);
      return;
    }
    c->connected = 1;
  }
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
    char reply[2048];
    ssize_t length = read(c->socket, reply, sizeof reply);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    for (int i = 0; i < LEN && length == LEN; i++) {
      reply[i] ^= state->request[i];
    }
    struct peer *a = state->a;
    if (length != LEN || write(a->socket, reply, LEN) != LEN) {
      end_client(a);
      return;
    }
    end_request(state);
  }
}

static void *loop(void *unused) {
  int epoll = epoll_create1(0), listener = listen_on(port);
  struct epoll_event events[EVENTS];
  (void)unused;
  watch(epoll, listener, EPOLLIN, NULL);
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      struct peer *peer = events[i].data.ptr;
      if (peer == NULL) {
        int client;
        while ((client = accept_from(listener)) >= 0) {
          struct peer *a = calloc(1, sizeof *a);
          a->socket = client;
          watch(epoll, client, EPOLLIN, a);
        }
      } else if (peer->socket < 0) {
        continue;
      } else if (peer->is_c) {
        c_ready(peer, events[i].events);
      } else {
        read_request(epoll, peer);
      }
    }
    while (dying > 0) {
      free(dead[--dying]);
    }
  }
  return NULL;
}

int main(int argc, char *argv[]) {
  port = argc > 1 ? atoi(argv[1]) : 0;
  c_port = argc > 2 ? atoi(argv[2]) : 0;
  run_loops(loop);
  return 0;
}
