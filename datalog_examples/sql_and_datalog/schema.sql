CREATE TABLE employees (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    manager INTEGER,
    salary DECIMAL(10, 2) NOT NULL
);

CREATE TABLE expenses (
    id INTEGER PRIMARY KEY,
    employee INTEGER NOT NULL,
    approver INTEGER,
    amount DECIMAL(10, 2) NOT NULL
);

CREATE VIEW large_expenses AS
SELECT id, employee, approver FROM expenses WHERE amount >= 1000;

INSERT INTO employees VALUES
    (1, 'Ines', NULL, 9800.00),
    (2, 'Jonas', 1, 7200.50),
    (3, 'Karla', 1, 7100.00),
    (4, 'Lars', 2, 5400.25),
    (5, 'Mira', 2, 5600.00),
    (6, 'Nils', 4, 4100.00);

INSERT INTO expenses VALUES
    (100, 6, 4, 2500.00),
    (101, 6, 2, 1000.00),
    (102, 4, 5, 3200.00),
    (103, 5, 6, 1800.00),
    (104, 3, 2, 999.99),
    (105, 2, NULL, 4000.00),
    (106, 2, 2, 1500.00);
