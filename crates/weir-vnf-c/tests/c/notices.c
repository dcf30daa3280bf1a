// Prints what the orchestrator at port ARGV[1] says.
#include "support.h"

static const char *tasks[] = {"?", "ADD", "REMOVE"}, *events[] = {"UNKNOWN", "MAINTENANCE", "FAILURE", "OVERLOAD"};

static void notice(int task, const char *vnf_name, const char *vnf_ip_address, int event) {
  printf("%s %s %s %s\n", tasks[task], vnf_name, vnf_ip_address, events[event]);
  fflush(stdout);
}

static void failed(int connection, void *request, char *packet, size_t length, int error) {
  (void)connection, (void)request, (void)packet, (void)length;
  printf("%s\n", vnfErrorText(error));
  fflush(stdout);
}

int main(int argc, char *argv[]) {
  printf("%d\n", argc);
  registerCallback(0, ERROR, failed);
  int error = registerforNotification("127.0.0.1", atoi(argv[1]), notice);
  return error != 0 ? error : run();
}
