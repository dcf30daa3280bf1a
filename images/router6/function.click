routes :: LookupIP6Route($LEFT_IP 2, $RIGHT_IP 2, $ROUTES);
left :: IP6NDSolicitor($LEFT_IP, $LEFT_MAC);
right :: IP6NDSolicitor($RIGHT_IP, $RIGHT_MAC);

// Neighbour solicitations, advertisements, and other IPv6.
in_0 -> from_left :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
from_left [0] -> IP6NDAdvertiser($LEFT_IP $LEFT_MAC) -> out_0;
from_left [1] -> [1] left;
from_left [2] -> Paint(0) -> ip :: Null;
from_left [3] -> Discard;

in_1 -> from_right :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
from_right [0] -> IP6NDAdvertiser($RIGHT_IP $RIGHT_MAC) -> out_1;
from_right [1] -> [1] right;
from_right [2] -> Paint(1) -> ip;
from_right [3] -> Discard;

// What is for one link only is not forwarded (RFC 4291).
ip -> Strip(14) -> CheckIP6Header($LEFT_IP $RIGHT_IP) -> mine :: IP6Classifier(
  dst host $LEFT_IP or dst host $RIGHT_IP, src net fe80::/10 or dst net fe80::/10 or dst net ff00::/8, -);
mine [0] -> ICMP6PingResponder -> routes;
mine [1] -> Discard;
mine [2] -> hops :: DecIP6HLIM -> routes;
hops [1] -> side :: PaintSwitch;
side [0] -> ICMP6Error($LEFT_IP, timeexceeded, transit) -> routes;
side [1] -> ICMP6Error($RIGHT_IP, timeexceeded, transit) -> routes;

routes [0] -> left -> out_0;
routes [1] -> right -> out_1;
routes [2] -> Discard;
