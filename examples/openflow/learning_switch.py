"""A learning switch for OpenFlow 1.3, as an application of os-ken: osken-manager learning_switch.py

What is sent to an address that was heard goes by a rule in the switch; all else comes here, and is sent to all ports.
"""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class LearningSwitch(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.heard = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def came(self, event):
        switch = event.msg.datapath
        self.heard[switch.id] = {}
        to_us = switch.ofproto_parser.OFPActionOutput(switch.ofproto.OFPP_CONTROLLER, switch.ofproto.OFPCML_NO_BUFFER)
        self.add_rule(switch, 0, switch.ofproto_parser.OFPMatch(), [to_us])

    def add_rule(self, switch, priority, match, actions):
        parser, protocol = switch.ofproto_parser, switch.ofproto
        apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)
        switch.send_msg(parser.OFPFlowMod(switch, priority=priority, match=match, instructions=[apply]))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message, switch = event.msg, event.msg.datapath
        parser, protocol = switch.ofproto_parser, switch.ofproto
        port = message.match["in_port"]
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        heard = self.heard.setdefault(switch.id, {})
        heard[frame.src] = port
        target = heard.get(frame.dst, protocol.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(target)]
        if target != protocol.OFPP_FLOOD:
            self.add_rule(switch, 1, parser.OFPMatch(in_port=port, eth_dst=frame.dst, eth_src=frame.src), actions)
        out = parser.OFPPacketOut(switch, buffer_id=protocol.OFP_NO_BUFFER, in_port=port, actions=actions, data=message.data)
        switch.send_msg(out)
