servers :: RoundRobinIPMapper($SERVERS);
nat :: IPRewriter(servers, drop);
routes :: StaticIPLookup($VIP 2, $SERVERS_IP 2, $SERVERS_NET 1, $CLIENT_ROUTES);
clients_arp :: ARPQuerier($VIP, $CLIENTS_MAC);
servers_arp :: ARPQuerier($SERVERS_IP, $SERVERS_MAC);

in_0 -> from_clients :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_clients [0] -> ARPResponder($VIP $CLIENTS_MAC) -> out_0;
from_clients [1] -> [1] clients_arp;
from_clients [2] -> Strip(14) -> CheckIPHeader(BADSRC $VIP $SERVERS_IP) -> asked :: IPClassifier(
  dst host $VIP and ($SERVICE),
  dst host $VIP and icmp type echo,
  dst host $VIP and (icmp type 3 or icmp type 11 or icmp type 12),
  -);
from_clients [3] -> Discard;
asked [0] -> nat;
asked [1] -> ICMPPingResponder -> routes;
asked [2] -> ICMPRewriter(nat) -> routes;
asked [3] -> Discard;

in_1 -> from_servers :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_servers [0] -> ARPResponder($SERVERS_IP $SERVERS_MAC) -> out_1;
from_servers [1] -> [1] servers_arp;
from_servers [2] -> Strip(14) -> CheckIPHeader(BADSRC $VIP $SERVERS_IP) -> answered :: IPClassifier(
  tcp or udp,
  dst host $SERVERS_IP and icmp type echo,
  icmp type 3 or icmp type 11 or icmp type 12,
  -);
from_servers [3] -> Discard;
answered [0] -> [1] nat;
answered [1] -> ICMPPingResponder -> routes;
// An error of a server comes from the address that clients know.
answered [2] -> ICMPRewriter(nat) -> StoreIPAddress($VIP, src) -> routes;
answered [3] -> Discard;

nat [0] -> ttl :: DecIPTTL -> routes;
nat [1] -> ttl;
routes [0] -> clients_arp -> out_0;
routes [1] -> servers_arp -> out_1;
routes [2] -> Discard;
