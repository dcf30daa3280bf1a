// The load balancer without the library. Usage: balancer PORT PORT-OF-REPLICAS PORT-OF-ORCHESTRATOR
#include "epoll.h"
#include <stdbool.h>
#include <sys/time.h>

enum { OUT = 65536, EVENTS = 1024, REPLICAS = 256 };
enum { CLIENT, REPLICA };

struct pair;

struct side {
  struct pair *pair;
  int socket;
  bool ended, connected; // It sends no more; it can be sent to.
  size_t begin, end; // What waits to be sent to it.
  char out[OUT];
};

struct pair {
  struct side side[2];
  bool closing, dead; // The replica has ended: the client gets the rest.
};

static int port, replica_port, orchestrator_port;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct in_addr replicas[REPLICAS];
static unsigned count, turn;

static _Thread_local int epoll;
static _Thread_local struct pair *dead[2 * EVENTS]; // Freed behind the events, which may still name them.
static _Thread_local int dying;

static void end_pair(struct pair *pair) {
  if (!pair->dead) {
    pair->dead = true;
    for (int i = CLIENT; i <= REPLICA; i++) {
      close(pair->side[i].socket);
    }
    dead[dying++] = pair;
  }
}

// Waits for what each side can do now: data only as long as there is a place for it.
static void wait_for(struct pair *pair) {
  for (int i = CLIENT; i <= REPLICA; i++) {
    struct side *side = &pair->side[i], *other = &pair->side[1 - i];
    struct epoll_event event = {.data.ptr = side};
    if (!side->ended && !pair->closing && other->begin == other->end) {
      event.events |= EPOLLIN;
    }
    if (side->begin != side->end || !side->connected) {
      event.events |= EPOLLOUT;
    }
    epoll_ctl(epoll, EPOLL_CTL_MOD, side->socket, &event);
  }
}

static void send_out(struct side *side) {
  if (!side->connected) {
    return;
  }
  ssize_t sent = send(side->socket, side->out + side->begin, side->end - side->begin, MSG_NOSIGNAL);
  if (sent >= 0) {
    side->begin += (size_t)sent;
  } else if (errno != EAGAIN && errno != EINTR) {
    end_pair(side->pair);
    return;
  }
  if (side->begin == side->end) {
    side->begin = side->end = 0;
    if (side->pair->closing) {
      end_pair(side->pair);
    }
  }
}

static void read_in(struct side *side) {
  struct pair *pair = side->pair;
  bool is_client = side == &pair->side[CLIENT];
  struct side *other = &pair->side[is_client ? REPLICA : CLIENT];
  ssize_t length = read(side->socket, other->out + other->end, OUT - other->end);
  if (length > 0) {
    other->end += (size_t)length;
    send_out(other);
  } else if (length == 0 && is_client) {
    side->ended = true;
  } else if (length == 0) {
    pair->closing = true;
    if (other->begin == other->end) {
      end_pair(pair);
    }
  } else if (errno != EAGAIN && errno != EINTR) {
    end_pair(pair);
  }
}

static void ready(struct side *side, uint32_t events) {
  struct pair *pair = side->pair;
  if (pair->dead) {
    return;
  }
  if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLIN)) {
    end_pair(pair);
    return;
  }
  if (events & EPOLLOUT) {
    side->connected = true;
    send_out(side);
  }
  if (!pair->dead && events & EPOLLIN) {
    read_in(side);
  }
  if (!pair->dead) {
    wait_for(pair);
  }
}

static void give(int client) {
  pthread_mutex_lock(&lock);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)replica_port)};
  bool any = count > 0;
  if (any) {
    address.sin_addr = replicas[++turn % count];
  }
  pthread_mutex_unlock(&lock);
  int replica = any ? socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) : -1, on = 1;
  if (replica < 0) {
    close(client);
    return;
  }
  setsockopt(replica, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(replica, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
    close(replica);
    close(client);
    return;
  }
  struct pair *pair = calloc(1, sizeof *pair);
  pair->side[CLIENT] = (struct side){.pair = pair, .socket = client, .connected = true};
  pair->side[REPLICA] = (struct side){.pair = pair, .socket = replica};
  for (int i = CLIENT; i <= REPLICA; i++) {
    watch(epoll, pair->side[i].socket, 0, &pair->side[i]);
  }
  wait_for(pair);
}

static void *loop(void *unused) {
  int listener = listen_on(port);
  struct epoll_event events[EVENTS];
  (void)unused;
  epoll = epoll_create1(0);
  watch(epoll, listener, EPOLLIN, NULL);
  for (;;) {
    int ready_count = epoll_wait(epoll, events, EVENTS, -1);
    for (int i = 0; i < ready_count; i++) {
      if (events[i].data.ptr != NULL) {
        ready(events[i].data.ptr, events[i].events);
        continue;
      }
      int client;
      while ((client = accept_from(listener)) >= 0) {
        give(client);
      }
    }
    while (dying > 0) {
      free(dead[--dying]);
    }
  }
  return NULL;
}

// The text of a member of an object in JSON, without escapes.
static bool member(const char *line, const char *name, char *text, size_t size) {
  char key[32];
  snprintf(key, sizeof key, "\"%s\"", name);
  const char *at = strstr(line, key);
  if (at == NULL || (at = strchr(at + strlen(key), '"')) == NULL) {
    return false;
  }
  size_t length = strcspn(++at, "\"");
  if (length >= size) {
    return false;
  }
  memcpy(text, at, length);
  text[length] = 0;
  return true;
}

static void notice(const char *line) {
  char task[16], text[48];
  struct in_addr address;
  if (!member(line, "task", task, sizeof task) || !member(line, "address", text, sizeof text) ||
      inet_pton(AF_INET, text, &address) != 1) {
    return;
  }
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < count; i++) {
    if (replicas[i].s_addr == address.s_addr) {
      replicas[i] = replicas[--count];
    }
  }
  if (strcmp(task, "add") == 0 && count < REPLICAS) {
    replicas[count++] = address;
  }
  pthread_mutex_unlock(&lock);
}

// Asks the orchestrator, and reads what it says until the connection ends.
static void listen_to(int orchestrator) {
  static const char request[] = "GET /replicas HTTP/1.0\r\nHost: orchestrator\r\n\r\n";
  struct timeval silence = {.tv_sec = 30};
  setsockopt(orchestrator, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  if (send(orchestrator, request, sizeof request - 1, MSG_NOSIGNAL) < 0) {
    return;
  }
  FILE *answer = fdopen(dup(orchestrator), "r");
  char line[65536];
  bool body = false, good = answer != NULL && fgets(line, sizeof line, answer) != NULL &&
                            strncmp(line, "HTTP/1.", 7) == 0 && strncmp(line + 8, " 200", 4) == 0;
  while (good && fgets(line, sizeof line, answer) != NULL) {
    if (body) {
      notice(line);
    }
    body = body || strcmp(line, "\r\n") == 0 || strcmp(line, "\n") == 0;
  }
  if (answer != NULL) {
    fclose(answer);
  }
}

static void *follow(void *unused) {
  (void)unused;
  for (;;) {
    int orchestrator = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = local_address(orchestrator_port);
    if (connect(orchestrator, (struct sockaddr *)&address, sizeof address) == 0) {
      listen_to(orchestrator);
    }
    close(orchestrator);
    sleep(1);
  }
  return NULL;
}

int main(int argc, char *argv[]) {
  if (argc != 4) {
    return 2;
  }
  port = atoi(argv[1]);
  replica_port = atoi(argv[2]);
  orchestrator_port = atoi(argv[3]);
  pthread_t thread;
  pthread_create(&thread, NULL, follow, NULL);
  run_loops(loop);
  return 0;
}
