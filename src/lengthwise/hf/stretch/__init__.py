"""Stretching a trained model: each method measured on the user's text, near and far, and the best one as a config."""

from lengthwise.hf.stretch.bootstrap import Gap as Gap
from lengthwise.hf.stretch.bootstrap import paired_gap as paired_gap
from lengthwise.hf.stretch.candidate import UNTOUCHED as UNTOUCHED
from lengthwise.hf.stretch.candidate import Candidate as Candidate
from lengthwise.hf.stretch.candidate import candidates as candidates
from lengthwise.hf.stretch.candidate import defaults as defaults
from lengthwise.hf.stretch.export import loading as loading
from lengthwise.hf.stretch.export import verify as verify
from lengthwise.hf.stretch.export import write_model as write_model
from lengthwise.hf.stretch.outcome import Outcome as Outcome
from lengthwise.hf.stretch.plan import Plan as Plan
from lengthwise.hf.stretch.plan import plan as plan
from lengthwise.hf.stretch.run import Stretch as Stretch
from lengthwise.hf.stretch.store import Store as Store
