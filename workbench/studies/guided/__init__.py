"""Guided saturation: schedules, policies and sketches that decide which rules run, step by step."""

from workbench.studies.guided.schedule import Backoff as Backoff
from workbench.studies.guided.schedule import Guided as Guided
from workbench.studies.guided.schedule import Policy as Policy
from workbench.studies.guided.schedule import Repeat as Repeat
from workbench.studies.guided.schedule import Run as Run
from workbench.studies.guided.schedule import Schedule as Schedule
from workbench.studies.guided.schedule import Scheduled as Scheduled
from workbench.studies.guided.schedule import Sequence as Sequence
from workbench.studies.guided.schedule import parse_schedule as parse_schedule
from workbench.studies.guided.sketch import ANY as ANY
from workbench.studies.guided.sketch import Contains as Contains
from workbench.studies.guided.sketch import Either as Either
from workbench.studies.guided.sketch import Op as Op
from workbench.studies.guided.sketch import Sketch as Sketch
from workbench.studies.guided.sketch import Stage as Stage
from workbench.studies.guided.sketch import sketch_of as sketch_of
from workbench.studies.guided.sketch import staged as staged
