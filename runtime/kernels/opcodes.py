"""The opcodes of the expression machine. The meaning of each is the comment beside its number."""

LOAD = 0  # input column b
FETCH = 1  # column c of source b at rowid a
STORE = 2  # a to output column destination
FILTER = 3  # keep the rows whose a is true, or ERROR
COMPACT = 4  # drop from register destination the rows that the last FILTER dropped
MEMO = 5  # entry a of source b, a code table, noting the codes it lacks
SELECT = 6  # b where a is true, else c
IN_SET = 7  # whether a is among the sorted constants b .. b + c

ADD = 10  # integers; c is the position of the lowest and highest allowed result in the constants
SUB = 11
MUL = 12
DIV = 13  # truncates; ERROR when b is 0
MOD = 14  # sign of a; ERROR when b is 0
FLOOR_DIV = 15
ADD_MONTHS = 16  # date a plus b months, clamped to the end of the month

SCALE_DOWN = 20  # a / b, half away from zero, within bounds c
RANGE = 21  # a if within bounds c
CIVIL = 22  # year, month or day (b = 0, 1, 2) of date a
IS_NULL = 23
NOT = 24
ORDER = 25  # a, negated if b & 1; NULL becomes the lowest word if b & 2, else the highest

EQ = 30
NE = 31
LT = 32
LE = 33
DISTINCT = 34  # NULLs equal each other
AND = 35  # three-valued; false and ERROR is false
OR = 36
BOTH = 37  # AND of two predicates: NULL counts as false
COALESCE = 38
TEXT_COMPARE = 39  # -1, 0 or 1 by the bytes of strings a and b
TEXT_WORD = 40  # bytes 7b .. 7b + 7 of string a as a number, and how many there are
BETWEEN = 41  # whether a is within bounds b; NULL counts as false

ADD_DOUBLE = 50
SUB_DOUBLE = 51
MUL_DOUBLE = 52
DIV_DOUBLE = 53  # ERROR when b is 0
TO_DOUBLE = 54  # a / b
FROM_DOUBLE = 55  # a * b, within bounds c; halves to even if b is 1, else away from zero
