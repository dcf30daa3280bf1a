// The reverse proxy without the library. Usage: proxy PORT PORT-OF-SERVER
#include "epoll.h"
#include <strings.h>

enum { HEAD = 16384, OUT = 65536, EVENTS = 1024 };
enum { CLIENT, SERVER };

struct pair;

struct side {
  struct pair *pair;
  int socket, which;
  int ended; // It sends no more.
  size_t begin, end; // What waits to be sent to it.
  char out[OUT];
};

struct pair {
  struct side side[2];
  int connected, answered, closing, dead;
  size_t length;
  char head[HEAD];
};

static int port, server_port;

static _Thread_local int epoll;
static _Thread_local struct pair *dead[2 * EVENTS]; // Freed behind the events, which may still name them.
static _Thread_local int dying;

static void close_side(struct side *side) {
  if (side->socket >= 0) {
    close(side->socket);
    side->socket = -1;
  }
}

static void end_pair(struct pair *pair) {
  if (!pair->dead) {
    pair->dead = 1;
    close_side(&pair->side[CLIENT]);
    close_side(&pair->side[SERVER]);
    dead[dying++] = pair;
  }
}

static int has_server(struct pair *pair) {
  return pair->side[SERVER].socket >= 0;
}

// Waits for what each side can do now: data only as long as there is a place for it.
static void wait_for(struct pair *pair) {
  for (int i = CLIENT; i <= SERVER; i++) {
    struct side *side = &pair->side[i], *other = &pair->side[1 - i];
    struct epoll_event event = {.data.ptr = side};
    if (side->socket < 0) {
      continue;
    }
    if (!side->ended && !pair->closing && other->begin == other->end && (i == SERVER || !has_server(pair) || pair->connected)) {
      event.events |= EPOLLIN;
    }
    if (side->begin != side->end || (i == SERVER && !pair->connected)) {
      event.events |= EPOLLOUT;
    }
    epoll_ctl(epoll, EPOLL_CTL_MOD, side->socket, &event);
  }
}

static void send_out(struct side *side) {
  ssize_t sent = write(side->socket, side->out + side->begin, side->end - side->begin);
  if (sent >= 0) {
    side->begin += (size_t)sent;
  } else if (errno != EAGAIN && errno != EINTR) {
    end_pair(side->pair);
    return;
  }
  if (side->begin == side->end) {
    side->begin = side->end = 0;
    if (side->pair->closing && side->which == CLIENT) {
      end_pair(side->pair);
    }
  }
}

static void refuse(struct pair *pair, const char *status) {
  struct side *client = &pair->side[CLIENT];
  close_side(&pair->side[SERVER]);
  client->end =
      (size_t)snprintf(client->out, OUT, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
  pair->closing = 1;
  send_out(client);
}

static void append(struct side *side, const char *bytes, size_t length) {
  memcpy(side->out + side->end, bytes, length);
  side->end += length;
}

// The head without the client's wish for the connection, and with ours.
static void put_head(struct pair *pair) {
  static const char ours[] = "Via: 1.1 weir\r\nConnection: close\r\n\r\n";
  struct side *server = &pair->side[SERVER];
  char *line = pair->head;
  for (char *end; (end = strstr(line, "\r\n")) != NULL && end != line; line = end + 2) {
    if (strncasecmp(line, "connection:", 11) != 0) {
      append(server, line, (size_t)(end + 2 - line));
    }
  }
  append(server, ours, sizeof ours - 1);
  append(server, line + 2, (size_t)(pair->head + pair->length - line - 2));
}

static void read_head(struct pair *pair) {
  struct side *client = &pair->side[CLIENT], *server = &pair->side[SERVER];
  ssize_t length = read(client->socket, pair->head + pair->length, HEAD - 1 - pair->length);
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (length <= 0) {
    end_pair(pair);
    return;
  }
  if (memchr(pair->head + pair->length, 0, (size_t)length) != NULL) {
    refuse(pair, "400 Bad Request");
    return;
  }
  pair->length += (size_t)length;
  if (strstr(pair->head, "\r\n\r\n") != NULL) {
    server->socket = connect_to(server_port);
    if (server->socket < 0) {
      refuse(pair, "502 Bad Gateway");
      return;
    }
    put_head(pair);
    watch(epoll, server->socket, EPOLLOUT, server);
  } else if (pair->length == HEAD - 1) {
    refuse(pair, "431 Request Header Fields Too Large");
  }
}

static void server_ended(struct pair *pair) {
  if (!pair->answered) {
    refuse(pair, "502 Bad Gateway");
    return;
  }
  close_side(&pair->side[SERVER]);
  pair->closing = 1;
  if (pair->side[CLIENT].begin == pair->side[CLIENT].end) {
    end_pair(pair);
  }
}

// Passes data on from one side to the other.
static void pass(struct side *from) {
  struct pair *pair = from->pair;
  struct side *to = &pair->side[1 - from->which];
  ssize_t length = read(from->socket, to->out, OUT);
  if (length > 0) {
    to->end = (size_t)length;
    pair->answered |= from->which == SERVER;
    send_out(to);
  } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
    from->ended = 1;
    if (from->which == SERVER) {
      server_ended(pair);
    } else if (length < 0) {
      end_pair(pair);
    }
  }
}

static void ready(struct side *side, uint32_t events) {
  struct pair *pair = side->pair;
  if (side->which == SERVER && !pair->connected) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(side->socket, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      server_ended(pair);
    } else {
      pair->connected = 1;
    }
  }
  if (side->socket >= 0 && (events & EPOLLOUT) && side->begin != side->end) {
    send_out(side);
  }
  if (!pair->dead && side->socket >= 0 && (events & (EPOLLIN | EPOLLERR | EPOLLHUP))) {
    struct side *other = &pair->side[1 - side->which];
    if (side->which == CLIENT && !has_server(pair) && !pair->closing) {
      read_head(pair);
    } else if (events & EPOLLIN && other->begin == other->end) {
      pass(side);
    } else if (side->which == CLIENT && (events & (EPOLLERR | EPOLLHUP))) {
      end_pair(pair);
    }
  }
  if (!pair->dead) {
    wait_for(pair);
  }
}

static void *loop(void *unused) {
  int listener = listen_on(port);
  struct epoll_event events[EVENTS];
  (void)unused;
  epoll = epoll_create1(0);
  watch(epoll, listener, EPOLLIN, NULL);
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      struct side *side = events[i].data.ptr;
      int client;
      while (side == NULL && (client = accept_from(listener)) >= 0) {
        struct pair *pair = calloc(1, sizeof *pair);
        for (int which = CLIENT; which <= SERVER; which++) {
          pair->side[which].pair = pair;
          pair->side[which].socket = which == CLIENT ? client : -1;
          pair->side[which].which = which;
        }
        watch(epoll, client, EPOLLIN, &pair->side[CLIENT]);
      }
      if (side != NULL && !side->pair->dead && side->socket >= 0) {
        ready(side, events[i].events);
      }
    }
    while (dying > 0) {
      free(dead[--dying]);
    }
  }
  return NULL;
}

int main(int argc, char *argv[]) {
  signal(SIGPIPE, SIG_IGN);
  port = argc > 1 ? atoi(argv[1]) : 0;
  server_port = argc > 2 ? atoi(argv[2]) : 0;
  run_loops(loop);
  return 0;
}
