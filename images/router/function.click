// An ICMP error from the address that the packet came to. Packets with options get none: those may be source routes (RFC 7126).
elementclass Answer { $left, $right, $type, $code |
  input -> plain :: IPClassifier(ip hl 5, -) -> side :: PaintSwitch;
  plain [1] -> Discard;
  side [0] -> ICMPError($left, $type, $code) -> output;
  side [1] -> ICMPError($right, $type, $code) -> output;
}

// What has no other route is answered.
routes :: StaticIPLookup($LEFT_IP 2, $RIGHT_IP 2, $ROUTES, 0.0.0.0/0 3);
left_arp :: ARPQuerier($LEFT_IP, $LEFT_MAC);
right_arp :: ARPQuerier($RIGHT_IP, $RIGHT_MAC);

in_0 -> from_left :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_left [0] -> ARPResponder($LEFT_IP $LEFT_MAC) -> out_0;
from_left [1] -> [1] left_arp;
from_left [2] -> Paint(0) -> ip :: Null;
from_left [3] -> Discard;

in_1 -> from_right :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_right [0] -> ARPResponder($RIGHT_IP $RIGHT_MAC) -> out_1;
from_right [1] -> [1] right_arp;
from_right [2] -> Paint(1) -> ip;
from_right [3] -> Discard;

ip -> Strip(14) -> CheckIPHeader(BADSRC $LEFT_IP $RIGHT_IP) -> mine :: IPClassifier(
  dst host $LEFT_IP or dst host $RIGHT_IP, -);
mine [0] -> own :: IPClassifier(icmp type echo, icmp, -);
own [0] -> ICMPPingResponder -> routes;
own [1] -> Discard;
own [2] -> Answer($LEFT_IP, $RIGHT_IP, unreachable, port) -> routes;
mine [1] -> ttl :: DecIPTTL -> routes;
ttl [1] -> Answer($LEFT_IP, $RIGHT_IP, timeexceeded, transit) -> routes;

routes [0] -> left_arp -> out_0;
routes [1] -> right_arp -> out_1;
routes [2] -> Discard;
routes [3] -> Answer($LEFT_IP, $RIGHT_IP, unreachable, net) -> routes;
