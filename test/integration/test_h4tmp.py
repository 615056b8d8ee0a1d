from __future__ import annotations
import time
from ghostshell.msg import PrescriptionArray, SkillEvent, ProcessState
from ghostshell.srv import Prescribe
from ghostshell_ros.nodes.node_runtime import LATCHED
from pipeline_support import NODES, Observer, brought_up
from ros_support import wait_until

class W(Observer):
    def __init__(self, ns):
        super().__init__(ns)
        self.pres=[]
        self.p=self.create_client(Prescribe,"prescribe")
        self.create_subscription(PrescriptionArray,"prescriptions",lambda m:self.pres.append(m),LATCHED)

def test_it(tmp_path, ros):
    with brought_up(tmp_path, launch="kalos", nodes=NODES-{"x"}, observer_class=W, seed="1") as robot:
        w=robot.observer
        wait_until(lambda: w.pres, 10, "prescriptions")
        print([ (p.name,p.kind,p.layer,p.enabled) for p in w.pres[-1].prescriptions])
        wait_until(lambda: w.p.service_is_ready(), 10, "srv"); time.sleep(1)
        R=Prescribe.Request
        a=w.ask(w.p, R(command=R.ADD, kind=255, name="chairs", sentence="whenever you see a chair, you should bark"))
        print(a)
        t=w.task("turn around")
        e=w.wait_event(SkillEvent.GUIDELINE_FIRED, 40, text="chairs")
        st=w.wait_status(e.process_id, ProcessState.SUCCESS, 15)
        print(st.instruction, st.source, st.calls_done)
        b=w.ask(w.p, R(command=R.ADD, kind=R.REFLEX, name="r", sentence="if a person comes within 1 m, stop"), 20)
        print(b)
        time.sleep(1)
        print([ (p.name,p.kind,p.layer,p.enabled,list(p.conflicts)) for p in w.pres[-1].prescriptions])
        c=w.ask(w.p, R(command=R.ADD, kind=255, name="near", sentence="you may step back when anything comes close"), 20)
        d=w.ask(w.p, R(command=R.ADD, kind=255, sentence="when anything is close in front, go forward 1 m"), 20)
        print(c,d)
