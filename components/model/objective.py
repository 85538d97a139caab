from components.objective import *  # noqa: F403
from components.objective import IGNORE, CrossEntropy, Objective, objective_of  # noqa: F401
