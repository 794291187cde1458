-- Everyone who has people below them: how many, at any depth, and what these earn.
SELECT boss.name AS boss, count(*) AS people, sum(employee.salary) AS payroll
FROM reports_to
JOIN employees AS employee ON employee.id = reports_to.employee
JOIN employees AS boss ON boss.id = reports_to.boss
GROUP BY boss.name
ORDER BY boss.name;
