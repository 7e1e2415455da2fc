#!/usr/bin/env python3
"""Writes a CSV table in which 400 towns change the meaning of the numbers, for --embedding."""
import random

random.seed(1)
effect = [(random.gauss(0, 1), random.gauss(0, 1)) for _ in range(400)]
print("town,x,y,value")
for _ in range(4000):
    town, x, y = random.randrange(400), random.gauss(0, 1), random.gauss(0, 1)
    print(f"t{town},{x:.4f},{y:.4f},{effect[town][0] + effect[town][1] * x + y * y + random.gauss(0, 0.3):.4f}")
