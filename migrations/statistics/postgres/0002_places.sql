-- The tree read from one place to the next, as those who count along do. A place is given once.
CREATE UNIQUE INDEX leaves_by_place ON leaves (leaf_index);
